//! Gives the shared library its SONAME; downloads nothing, writes nothing into the tree.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(loom)");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // One ABI generation, one name: loaders look for this one before they open a file.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcenote.so.0");
    }
}
