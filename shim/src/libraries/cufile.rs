//! libcufile (GPUDirect Storage): not implemented. Its calls have three kinds of return value, and never return
//! success.

use abi::guard::Guard;
use abi::library::Library;
use abi::table::Status;

use crate::boundary::table::exports;

exports! {
    library Cufile;
    raw {
        fn cuFileRead() -> i64 = || refuse("cuFileRead");
        fn cuFileWrite() -> i64 = || refuse("cuFileWrite");
    }
    stub {
        cuFileBatchIOGetStatus cuFileBatchIOSetUp cuFileBatchIOSubmit cuFileBufDeregister cuFileBufRegister
        cuFileDriverClose cuFileDriverClose_v2 cuFileDriverGetProperties cuFileDriverOpen cuFileGetVersion
        cuFileHandleRegister cuFileReadAsync cuFileStreamDeregister cuFileStreamRegister cuFileWriteAsync
    }
    empty {
        cuFileHandleDeregister
    }
}

/// The number of bytes moved, or the negative of an error.
fn refuse(name: &'static str) -> i64 {
    RULES.missing(name, Status::Stub);
    -i64::from(Library::Cufile.not_supported())
}
