//! The fake CUDA driver.
