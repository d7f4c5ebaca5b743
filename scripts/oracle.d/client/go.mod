module oracle.invalid/client

go 1.26.0
