//! Rules that only a driver with contexts, captures and real streams can break.
