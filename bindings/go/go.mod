module cenote

go 1.24
