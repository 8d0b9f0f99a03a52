//! Which backend serves: the caller's wish against what the machine has.

use super::host::{Host, HostOptions};
use super::Backend;
use crate::base::{Error, Result, Status};

/// What the caller asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// CUDA where a driver and a device exist, else the host.
    #[default]
    Auto,
    /// The host, whatever the machine has.
    Host,
    /// CUDA or an error.
    Cuda,
}

impl Choice {
    /// Reads the value of the option "backend"; empty is `Auto`.
    pub fn parse(text: &str) -> Result<Choice> {
        match text {
            "" | "auto" => Ok(Choice::Auto),
            "host" => Ok(Choice::Host),
            "cuda" => Ok(Choice::Cuda),
            _ => Err(Error::new(Status::E_VALUE, "backend: auto, host or cuda")),
        }
    }
}

/// Opens the backend of a choice. A driver that is there and fails is an error, never a reason to
/// use the host instead.
pub fn open(choice: Choice, host: HostOptions) -> Result<Box<dyn Backend>> {
    decide(choice, open_cuda, || open_host(host))
}

fn decide<B>(
    choice: Choice,
    cuda: impl FnOnce() -> Result<B>,
    host: impl FnOnce() -> Result<B>,
) -> Result<B> {
    match choice {
        Choice::Host => host(),
        Choice::Cuda => cuda(),
        Choice::Auto => match cuda() {
            Err(error) if means_no_gpu(error.status) => host(),
            outcome => outcome,
        },
    }
}

/// Whether an error of the CUDA backend says that there is nothing to use, and no fault.
fn means_no_gpu(status: Status) -> bool {
    status == Status::E_NO_DRIVER || status == Status::E_NO_DEVICE
}

fn open_host(options: HostOptions) -> Result<Box<dyn Backend>> {
    Ok(Box::new(Host::new(options)?))
}

#[cfg(feature = "cuda")]
fn open_cuda() -> Result<Box<dyn Backend>> {
    Ok(Box::new(super::cuda::Cuda::open()?))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda() -> Result<Box<dyn Backend>> {
    Err(Error::new(Status::E_NO_DRIVER, "this library was built without the feature \"cuda\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(status: Status) -> impl FnOnce() -> Result<&'static str> {
        move || Err(Error::new(status, "test"))
    }

    #[test]
    fn no_gpu_means_the_host_and_a_fault_means_an_error() {
        let host = || Ok("host");
        assert_eq!(decide(Choice::Auto, || Ok("cuda"), host), Ok("cuda"));
        assert_eq!(decide(Choice::Auto, fails(Status::E_NO_DRIVER), host), Ok("host"));
        assert_eq!(decide(Choice::Auto, fails(Status::E_NO_DEVICE), host), Ok("host"));
        for fault in [Status::E_DRIVER_INIT, Status::E_DRIVER_SYMBOL, Status::E_DRIVER] {
            let error = decide(Choice::Auto, fails(fault), host).unwrap_err();
            assert_eq!(error.status, fault);
        }
    }

    #[test]
    fn a_forced_backend_is_never_replaced() {
        let error = decide(Choice::Cuda, fails(Status::E_NO_DRIVER), || Ok("host")).unwrap_err();
        assert_eq!(error.status, Status::E_NO_DRIVER);
        assert_eq!(decide(Choice::Host, || Ok("cuda"), || Ok("host")), Ok("host"));
    }

    #[test]
    fn names() {
        assert_eq!(Choice::parse(""), Ok(Choice::Auto));
        assert_eq!(Choice::parse("host"), Ok(Choice::Host));
        assert_eq!(Choice::parse("cuda"), Ok(Choice::Cuda));
        assert_eq!(Choice::parse("CUDA").unwrap_err().status, Status::E_VALUE);
    }
}
