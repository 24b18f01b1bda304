//! The library from outside: holders, the schema of suites, and reports of runs that are made up.

mod holders;
mod pages;
mod schema;
mod stories;
mod trace;
