//! What others rely on: bytes of messages, profiles, the table of variables, the backlog.

mod backlog;
mod environment_page;
mod profiles;
mod wire;
