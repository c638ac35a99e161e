module github.com/railbind/railbind

go 1.26
