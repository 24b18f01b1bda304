//! From text to statements: tokens, the parser, and images of linked modules.

pub(crate) mod ast;
pub(crate) mod error;
pub(crate) mod image;
mod lexer;
mod parser;
pub(crate) mod print;
