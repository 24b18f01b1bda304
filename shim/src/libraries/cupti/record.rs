//! CUPTI's activity records as they lie in memory: those of CUDA 12.8 (`CUPTI_API_VERSION` 26), which CUDA 13 only appends to.

/// `CUpti_ActivityKind`
pub(super) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const KERNEL: u32 = 3;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const OVERHEAD: u32 = 17;
    pub(crate) const MEMCPY2: u32 = 22;
    pub(crate) const CUDA_EVENT: u32 = 36;
    pub(crate) const SYNCHRONIZATION: u32 = 38;
    pub(crate) const EXTERNAL_CORRELATION: u32 = 39;
}

/// `CUpti_ActivityAPI`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Api {
    pub(super) kind: u32,
    pub(super) cbid: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) correlation: u32,
    pub(super) result: u32,
}

/// `CUpti_ActivityExternalCorrelation`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct External {
    pub(super) kind: u32,
    pub(super) external_kind: u32,
    pub(super) id: u64,
    pub(super) correlation: u32,
    pub(super) reserved: u32,
}

/// `CUpti_ActivityKernel9`, and what `CUpti_ActivityKernel11` has behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kernel {
    pub(super) kind: u32,
    pub(super) cache_config: u8,
    pub(super) shared_config: u8,
    pub(super) registers: u16,
    pub(super) cache_requested: u32,
    pub(super) cache_executed: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) completed: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) static_shared: u32,
    pub(super) dynamic_shared: u32,
    pub(super) local_per_thread: u32,
    pub(super) local_total: u32,
    pub(super) correlation: u32,
    pub(super) grid_id: u64,
    /// Address of a C string.
    pub(super) name: usize,
    pub(super) reserved: u64,
    pub(super) queued: u64,
    pub(super) submitted: u64,
    pub(super) launch_type: u8,
    pub(super) carveout: [u8; 3],
    pub(super) shared_executed: u32,
    pub(super) node: u64,
    pub(super) shared_limit: u32,
    pub(super) graph: u32,
    pub(super) access_policy: usize,
    pub(super) channel: u32,
    pub(super) channel_type: u32,
    pub(super) cluster: [u32; 3],
    pub(super) cluster_policy: u32,
    pub(super) local_total_64: u64,
    pub(super) cluster_limits: [u32; 2],
    pub(super) added_by_13: [u32; 4],
}

/// `CUpti_ActivityMemcpy6`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memcpy {
    pub(super) kind: u32,
    pub(super) copy_kind: u8,
    pub(super) from_kind: u8,
    pub(super) to_kind: u8,
    pub(super) flags: u8,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) runtime_correlation: u32,
    pub(super) padding: u32,
    pub(super) reserved: u64,
    pub(super) node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
    pub(super) channel_type: u32,
    pub(super) is_device_launched: u32,
    pub(super) count: u64,
}

/// `CUpti_ActivityMemcpyPtoP4`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerCopy {
    pub(super) kind: u32,
    pub(super) copy_kind: u8,
    pub(super) from_kind: u8,
    pub(super) to_kind: u8,
    pub(super) flags: u8,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) from_device: u32,
    pub(super) from_context: u32,
    pub(super) to_device: u32,
    pub(super) to_context: u32,
    pub(super) correlation: u32,
    pub(super) reserved: u64,
    pub(super) node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
    pub(super) channel_type: u32,
    pub(super) padding: u32,
}

/// `CUpti_ActivityMemset4`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memset {
    pub(super) kind: u32,
    pub(super) value: u32,
    pub(super) bytes: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) device: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) correlation: u32,
    pub(super) flags: u16,
    pub(super) memory_kind: u16,
    pub(super) padding: u32,
    pub(super) reserved: u64,
    pub(super) node: u64,
    pub(super) graph: u32,
    pub(super) channel: u32,
    pub(super) channel_type: u32,
    pub(super) is_device_launched: u32,
}

/// `CUpti_ActivityCudaEvent2`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) correlation: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) event: u32,
    pub(super) padding: u32,
    pub(super) device: u32,
    pub(super) padding_2: u32,
    pub(super) reserved: u64,
    pub(super) reached: u64,
    pub(super) record: u64,
}

/// `CUpti_ActivitySynchronization2`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Synchronization {
    pub(super) kind: u32,
    pub(super) wait_kind: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) correlation: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    pub(super) event: u32,
    pub(super) record: u64,
    pub(super) result: u32,
    pub(super) padding: u32,
}

const _: () = {
    assert!(size_of::<Event>() == 56);
    assert!(size_of::<Synchronization>() == 56);
    assert!(size_of::<Api>() == 40);
    assert!(size_of::<External>() == 24);
    assert!(size_of::<Kernel>() == 224);
    assert!(size_of::<Memcpy>() == 96);
    assert!(size_of::<PeerCopy>() == 96);
    assert!(size_of::<Memset>() == 88);
};

/// A record that has not been delivered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record {
    Api(Api),
    External(External),
    Kernel(Kernel),
    Memcpy(Memcpy),
    PeerCopy(PeerCopy),
    Memset(Memset),
    Event(Event),
    Synchronization(Synchronization),
}

/// Bytes of a record of this kind in CUPTI of CUDA 13, or 12; `None` for kinds that have no records here.
pub(super) fn size(kind: u32, is_13: bool) -> Option<usize> {
    Some(match kind {
        kind::DRIVER | kind::RUNTIME => size_of::<Api>(),
        kind::EXTERNAL_CORRELATION => size_of::<External>(),
        kind::KERNEL | kind::CONCURRENT_KERNEL if is_13 => size_of::<Kernel>(),
        kind::KERNEL | kind::CONCURRENT_KERNEL => std::mem::offset_of!(Kernel, added_by_13),
        kind::MEMCPY => size_of::<Memcpy>(),
        kind::MEMCPY2 => size_of::<PeerCopy>(),
        kind::MEMSET => size_of::<Memset>(),
        kind::CUDA_EVENT => size_of::<Event>(),
        kind::SYNCHRONIZATION => size_of::<Synchronization>(),
        _ => return None,
    })
}

impl Record {
    /// Its kind, and where it is.
    pub(super) fn place(&self) -> (u32, *const u8) {
        match self {
            Self::Api(record) => (record.kind, (&raw const *record).cast()),
            Self::External(record) => (record.kind, (&raw const *record).cast()),
            Self::Kernel(record) => (record.kind, (&raw const *record).cast()),
            Self::Memcpy(record) => (record.kind, (&raw const *record).cast()),
            Self::PeerCopy(record) => (record.kind, (&raw const *record).cast()),
            Self::Memset(record) => (record.kind, (&raw const *record).cast()),
            Self::Event(record) => (record.kind, (&raw const *record).cast()),
            Self::Synchronization(record) => (record.kind, (&raw const *record).cast()),
        }
    }

    /// Changes its times.
    pub(super) fn convert(&mut self, convert: impl Fn(u64) -> u64) {
        let times: &mut [&mut u64] = match self {
            Self::Api(record) => &mut [&mut record.start, &mut record.end],
            Self::External(_) => &mut [],
            Self::Kernel(record) => &mut [&mut record.start, &mut record.end, &mut record.completed],
            Self::Memcpy(record) => &mut [&mut record.start, &mut record.end],
            Self::PeerCopy(record) => &mut [&mut record.start, &mut record.end],
            Self::Memset(record) => &mut [&mut record.start, &mut record.end],
            // 0 if nobody asked for it.
            Self::Event(record) if record.reached != 0 => &mut [&mut record.reached],
            Self::Event(_) => &mut [],
            Self::Synchronization(record) => &mut [&mut record.start, &mut record.end],
        };
        times.iter_mut().for_each(|time| **time = convert(**time));
    }
}
