/* The device files of two GPUs, by every way of looking; other paths and mistakes are libc's own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "check.h"

int __xstat(int, const char *, struct stat *);

static void is_device(const char *path, unsigned major_number, unsigned minor_number) {
    struct stat status;
    struct statx wide;
    SAME(stat(path, &status), 0);
    EXPECT(S_ISCHR(status.st_mode));
    SAME(major(status.st_rdev), major_number);
    SAME(minor(status.st_rdev), minor_number);
    SAME(lstat(path, &status), 0);
    SAME(minor(status.st_rdev), minor_number);
    SAME(fstatat(AT_FDCWD, path, &status, 0), 0);
    SAME(minor(status.st_rdev), minor_number);
    SAME(__xstat(1, path, &status), 0);
    SAME(minor(status.st_rdev), minor_number);
    SAME(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &wide), 0);
    SAME(wide.stx_rdev_major, major_number);
    SAME(wide.stx_rdev_minor, minor_number);
    SAME(access(path, F_OK), 0);
    SAME(access(path, R_OK | W_OK), 0);
}

static void is_missing(const char *path) {
    struct stat status;
    errno = 0;
    SAME(stat(path, &status), -1);
    SAME(errno, ENOENT);
    errno = 0;
    SAME(access(path, F_OK), -1);
    SAME(errno, ENOENT);
}

int main(void) {
    struct stat status, other;
    /* Linux's list of device numbers: 195 is NVIDIA's, 255 the control device. */
    is_device("/dev/nvidia0", 195, 0);
    is_device("/dev/nvidia1", 195, 1);
    is_device("/dev/nvidiactl", 195, 255);
    is_missing("/dev/nvidia2");
    is_missing("/dev/nvidia");
    is_missing("/dev/nvidia-fs0");
    is_missing("/dev/nvidia0/x");
    is_missing("/dev/nvidi");

    SAME(stat("/", &status), 0);
    EXPECT(S_ISDIR(status.st_mode));
    SAME(stat("/dev/null", &status), 0);
    SAME(fstatat(AT_FDCWD, "/dev/null", &other, 0), 0);
    SAME(status.st_rdev, other.st_rdev);
    SAME(lstat("/proc/self", &status), 0);
    EXPECT(S_ISLNK(status.st_mode));
    int directory = open("/dev", O_RDONLY | O_DIRECTORY);
    SAME(fstatat(directory, "null", &other, 0), 0);
    EXPECT(S_ISCHR(other.st_mode));
    SAME(close(directory), 0);
    const char *volatile nothing = NULL;
    errno = 0;
    SAME(stat(nothing, &status), -1);
    SAME(errno, EFAULT);
    SAME(access("/", W_OK), geteuid() == 0 ? 0 : -1);
    return failures();
}
