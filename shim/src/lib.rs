//! placeholder
#![expect(unsafe_code, reason = "a C boundary")]
