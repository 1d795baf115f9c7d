package variables

//go:generate go run ./gen ../..
