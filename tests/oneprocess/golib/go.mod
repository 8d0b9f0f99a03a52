module oneprocess

go 1.24

require cenote v0.0.0

replace cenote => ../../../bindings/go
