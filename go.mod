module github.com/spoolq/spool

go 1.26

require golang.org/x/sys v0.50.0
