//! Reads files that tasks write while they grow: the kernel notifies us when there is more.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

/// Bytes of a file that are passed on at a time.
const PIECE: usize = 64 << 10;
/// Bytes of the kernel's notifications that are read at a time.
const NOTICES: usize = 16 << 10;

/// The followed files below one directory, by name.
#[derive(Debug)]
pub(super) struct Directory {
    notices: AsyncFd<OwnedFd>,
    followed: HashMap<OsString, watch::Sender<()>>,
}

impl Directory {
    /// Watches `path` from now on.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn watch(path: &Path) -> io::Result<Directory> {
        let descriptor = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&descriptor, path, WatchFlags::MODIFY | WatchFlags::MOVED_TO)?;
        #[expect(deprecated, reason = "sound for an OwnedFd, which stays open while registered; the other is unsafe")]
        let notices = AsyncFd::new(descriptor)?;
        Ok(Directory { notices, followed: HashMap::new() })
    }

    /// Creates the empty file `path` in this directory. Data written to it can be read from the stream, which ends once this
    /// directory is dropped and everything has been read.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn follow(&mut self, path: &Path) -> io::Result<impl AsyncRead + Send + Unpin + 'static> {
        File::create_new(path)?;
        let file = File::open(path)?;
        let (sender, more) = watch::channel(());
        self.followed.insert(path.file_name().unwrap_or_default().to_owned(), sender);
        let (into, stream) = tokio::io::duplex(PIECE);
        tokio::spawn(copy(file, more, into));
        Ok(stream)
    }

    /// Wakes the followers of files that have grown; returns the names of other changed files. An error means that
    /// notifications fail.
    pub(super) async fn changed(&self) -> io::Result<Vec<OsString>> {
        let mut ready = self.notices.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); NOTICES];
        let mut reader = inotify::Reader::new(self.notices.get_ref(), &mut buffer);
        let mut others = Vec::new();
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.followed.values().for_each(|sender| sender.send_replace(()));
                }
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    match name.as_ref().and_then(|name| self.followed.get(name)) {
                        Some(sender) => sender.send_replace(()),
                        None => others.extend(name),
                    }
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    ready.clear_ready();
                    return Ok(others);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Passes on the contents of the file, and what is added to it until its directory is dropped.
async fn copy(mut file: File, mut more: watch::Receiver<()>, mut into: DuplexStream) {
    let mut piece = vec![0; PIECE];
    let mut over = false;
    loop {
        loop {
            match file.read(&mut piece) {
                Ok(0) | Err(_) => break,
                // Nobody reads it any more.
                Ok(count) if into.write_all(&piece[..count]).await.is_err() => return,
                Ok(_) => {}
            }
        }
        if over {
            return;
        }
        over = more.changed().await.is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_while_it_grows_and_to_its_end() {
        let place = tempfile::tempdir().unwrap();
        let mut directory = Directory::watch(place.path()).unwrap();
        let path = place.path().join("0.stdout");
        let mut stream = directory.follow(&path).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        let mut first = [0; 5];
        file.write_all(b"first").unwrap();
        let (seen, read) = tokio::join!(directory.changed(), stream.read_exact(&mut first));
        assert_eq!((seen.unwrap(), read.unwrap(), &first), (Vec::<OsString>::new(), 5, b"first"));
        std::fs::write(place.path().join("x"), "").unwrap();
        std::fs::rename(place.path().join("x"), place.path().join("0.ended")).unwrap();
        assert_eq!(directory.changed().await.unwrap(), ["0.ended"]);
        file.write_all(b" and last").unwrap();
        drop(directory);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, " and last");
    }
}
