//! The cluster as a whole: conversations, numbers of model v1, properties, the report's schema; and cluster files.

#![expect(clippy::disallowed_methods, reason = "tests read their scripts and goldens")]

mod cluster_file;
mod endings;
mod faults;
mod hang;
mod harness;
mod model_v1;
mod operations_schema;
mod order;
mod paths;
mod properties;
mod replicas;
mod report_schema;
mod scripts;
mod shared_device;
mod shift;
mod sites;
