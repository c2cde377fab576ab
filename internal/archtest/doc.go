// Package archtest holds the tests of the shape of the module: which package
// may import which, what spool.Open compiles in, how long a function may be,
// that exported symbols are documented. It has no code of its own and nothing
// imports it.
//
// A row that names a package which does not exist yet is inert.
package archtest
