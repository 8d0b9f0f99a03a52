//! The `cenote` command.
mod failure;
mod trace;
fn main() {
    for a in std::env::args().skip(1) {
        let t0 = std::time::Instant::now();
        match trace::open::open(std::path::Path::new(&a), trace::open::Format::Auto) {
            Ok(v) => {
                for t in v {
                    println!(
                        "{} {} pre {} peak {} {:?} compact {}",
                        t.name,
                        t.ops.len(),
                        t.pre_count,
                        t.peak_live_bytes(),
                        t0.elapsed(),
                        trace::compact::write(&t).len()
                    )
                }
            }
            Err(e) => println!("{e}"),
        }
    }
}
