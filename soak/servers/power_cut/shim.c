/*
 * Remembers what a server's disk would hold if the power went away now.
 *
 * Preloaded into a server (LD_PRELOAD), it stands before the calls that change files. For each file below the
 * server's disk it keeps a state file, named by inode number, that other processes share:
 *
 *     offset 0       struct head: the size the file had when it was last synced
 *     offset HEAD    one struct record per block of the file: what the block held then, if it was changed since
 *
 * A file that has no state yet is as it was when the server started, and its size stands in a list made then (the
 * baseline); one that is in neither was never synced. To cut the power, the owner of the server kills it and then puts
 * each file back: restores the recorded blocks and cuts off what lies beyond the synced size. (supply.py does that.)
 *
 * It also lets the disk misbehave, as long as the owner of the server says so in a small file (the switches) that is
 * mapped into the server: syncing takes longer or fails, or there is no room for a file to grow.
 *
 * What one must know before touching it:
 *  - A block is recorded once, before its first change after a sync: no state grows beyond its file.
 *  - Real calls are made by number. So nothing here depends on what else is preloaded, nothing is looked up late,
 *    and calls of our own never come back to us.
 *  - The state is locked while a file is written or synced. The lock is given up by name, never by closing alone:
 *    Redis forks without exec, and a copy of the descriptor in the child would keep the lock.
 *  - No malloc, no stdio streams: a call may come from a signal handler or between fork and exec.
 *  - stdio's own writes do not come by here. Servers use stdio for new files only, which count as empty until they
 *    are synced, and that is right.
 *  - Names (create, rename, unlink) count as durable at once. Journalling filesystems make a file's name durable
 *    with the file's next sync, and the servers sync before they rename.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "written for 64-bit Linux"
#endif

/* supply.py knows these, too. */
#define BLOCK 8192 /* a page of PostgreSQL, its unit of overwriting */
#define HEAD 4096
#define STATE_VARIABLE "SOAK_POWER_STATE"
#define ROOT_VARIABLE "SOAK_POWER_ROOT"
#define ACTIVE_NAME "active"
#define BASELINE_NAME "baseline"
#define SWITCHES_NAME "switches"

struct head {
    uint64_t synced_bytes;
    uint64_t is_broken; /* something could not be recorded: the file cannot be put back */
};

struct record {
    uint64_t length; /* 0: not recorded */
    char bytes[BLOCK];
};

struct start { /* one line of the baseline, which is sorted by inode number */
    uint64_t inode;
    uint64_t size;
};

struct switches { /* 0: off */
    uint32_t sync_delay_ms;
    uint32_t sync_error;   /* of syncs, as errno */
    uint32_t growth_error; /* of every write that would make a file longer, as errno */
    uint32_t sync_errors_in_a_million;
};

/* Copies, because servers overwrite their environment to change their title. */
static char state_folder[PATH_MAX - 32];
static dev_t disk;
static const struct start *baseline;
static size_t baseline_length;
static const struct switches all_off;
static const volatile struct switches *switches = &all_off;

static int open_file(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static void state_path(char *path, ino_t inode)
{
    snprintf(path, PATH_MAX, "%s/%llu", state_folder, (unsigned long long)inode);
}

static int load_baseline(const char *folder)
{
    char path[PATH_MAX];
    struct stat status;

    snprintf(path, sizeof path, "%s/%s", folder, BASELINE_NAME);
    int file = open_file(path, O_RDONLY);
    if (file < 0)
        return 0;
    int is_read = fstat(file, &status) == 0;
    if (is_read && status.st_size > 0) {
        void *found = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        is_read = found != MAP_FAILED;
        if (is_read) {
            baseline = found;
            baseline_length = (size_t)status.st_size / sizeof *baseline;
        }
    }
    close(file);
    return is_read;
}

static int load_switches(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, SWITCHES_NAME);
    int file = open_file(path, O_RDONLY);
    if (file < 0)
        return 0;
    /* Shared: what is written to the file later is seen here at once, also by children. */
    void *found = mmap(NULL, sizeof *switches, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED)
        return 0;
    switches = found;
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv(STATE_VARIABLE);
    const char *root = getenv(ROOT_VARIABLE);
    char path[PATH_MAX];
    struct stat status;

    if (folder == NULL || root == NULL || strlen(folder) >= sizeof state_folder || stat(root, &status) != 0)
        return;
    disk = status.st_dev;
    if (!load_baseline(folder) || !load_switches(folder))
        return;
    snprintf(path, sizeof path, "%s/%s", folder, ACTIVE_NAME);
    int mark = open_file(path, O_WRONLY | O_CREAT);
    if (mark < 0)
        return;
    close(mark);
    strcpy(state_folder, folder);
}

/* ---- states ---- */

static int is_on_disk(const struct stat *status)
{
    /* A file that has lost its last name is gone after a power cut, whatever is written to it. */
    return S_ISREG(status->st_mode) && status->st_dev == disk && status->st_nlink > 0;
}

static int is_tracked(int fd, struct stat *status)
{
    /* Not the log, which is no part of the disk and often written. */
    return state_folder[0] != '\0' && fd > STDERR_FILENO && fstat(fd, status) == 0 && is_on_disk(status);
}

static int lock_state(ino_t inode)
{
    char path[PATH_MAX];

    state_path(path, inode);
    int state = open_file(path, O_RDWR | O_CREAT);
    while (state >= 0 && flock(state, LOCK_EX) != 0) {
        if (errno != EINTR) {
            close(state);
            return -1;
        }
    }
    return state;
}

static void unlock_state(int state)
{
    int kept = errno;

    if (state >= 0) {
        flock(state, LOCK_UN);
        close(state);
    }
    errno = kept;
}

static const struct start *in_baseline(ino_t inode)
{
    size_t low = 0;
    size_t high = baseline_length;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (baseline[middle].inode < inode)
            low = middle + 1;
        else
            high = middle;
    }
    return low < baseline_length && baseline[low].inode == inode ? &baseline[low] : NULL;
}

static void write_head(int state, const struct head *head)
{
    syscall(SYS_pwrite64, state, head, sizeof *head, (off_t)0);
}

static struct head read_head(int state, ino_t inode)
{
    struct head head;

    if (pread(state, &head, sizeof head, 0) != (ssize_t)sizeof head) {
        /* The first that happens to this file. */
        const struct start *start = in_baseline(inode);
        memset(&head, 0, sizeof head);
        head.synced_bytes = start == NULL ? 0 : start->size;
        write_head(state, &head);
    }
    return head;
}

static void forget_state(ino_t inode)
{
    const struct head nothing = {0};
    char path[PATH_MAX];
    int kept = errno;

    if (in_baseline(inode) != NULL) {
        /* The next file of this number must not be taken for the one in the baseline. */
        int state = lock_state(inode);
        if (state >= 0) {
            write_head(state, &nothing);
            syscall(SYS_ftruncate, state, (off_t)HEAD);
        }
        unlock_state(state);
    } else {
        state_path(path, inode);
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    }
    errno = kept;
}

static void mark_synced(int fd, int state)
{
    struct stat status;

    if (state < 0 || fstat(fd, &status) != 0)
        return;
    struct head head = {.synced_bytes = (uint64_t)status.st_size};
    write_head(state, &head);
    syscall(SYS_ftruncate, state, (off_t)HEAD);
}

/* ---- recording what is about to change ---- */

static ssize_t read_back(int fd, char *bytes, size_t length, off_t offset)
{
    ssize_t found = pread(fd, bytes, length, offset);

    if (found < 0 && errno == EBADF) { /* open for writing only */
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int readable = open_file(path, O_RDONLY);
        if (readable >= 0) {
            found = pread(readable, bytes, length, offset);
            close(readable);
        }
    }
    return found;
}

static int record_block(int fd, int state, const struct head *head, uint64_t block)
{
    struct record record;
    off_t place = HEAD + (off_t)(block * sizeof record);
    uint64_t start = block * BLOCK;
    uint64_t wanted = head->synced_bytes - start < BLOCK ? head->synced_bytes - start : BLOCK;

    if (pread(state, &record.length, sizeof record.length, place) == (ssize_t)sizeof record.length &&
        record.length != 0)
        return 1;
    ssize_t found = read_back(fd, record.bytes, wanted, (off_t)start);
    if (found < 0)
        return 0;
    if (found == 0)
        return 1;
    record.length = (uint64_t)found;
    size_t size = sizeof record.length + (size_t)found;
    return syscall(SYS_pwrite64, state, &record, size, place) == (ssize_t)size;
}

static void record_range(int fd, int state, ino_t inode, uint64_t from, uint64_t to)
{
    struct head head = read_head(state, inode);

    if (to > head.synced_bytes)
        to = head.synced_bytes;
    if (from >= to || head.is_broken)
        return;
    for (uint64_t block = from / BLOCK; block <= (to - 1) / BLOCK; block++) {
        if (!record_block(fd, state, &head, block)) {
            head.is_broken = 1;
            write_head(state, &head);
            return;
        }
    }
}

/* Returns the locked state, to be given to after_write; -1 if the file is none of ours. */
static int before_write(int fd, off_t offset, size_t length)
{
    struct stat status;
    int kept = errno;
    int state = -1;

    if (is_tracked(fd, &status) && (state = lock_state(status.st_ino)) >= 0) {
        if (offset < 0) {
            /* At the descriptor's own place; the end may have moved before we had the lock. */
            if (fcntl(fd, F_GETFL) & O_APPEND)
                offset = fstat(fd, &status) == 0 ? status.st_size : 0;
            else
                offset = lseek(fd, 0, SEEK_CUR);
        }
        record_range(fd, state, status.st_ino, (uint64_t)offset, (uint64_t)offset + length);
    }
    errno = kept;
    return state;
}

static ssize_t after_write(int fd, int state, ssize_t result)
{
    if (state >= 0) {
        int kept = errno;
        if (result > 0 && fcntl(fd, F_GETFL) & O_DSYNC)
            mark_synced(fd, state);
        errno = kept;
        unlock_state(state);
    }
    return result;
}

static size_t total(const struct iovec *parts, int count)
{
    size_t sum = 0;

    for (int part = 0; part < count; part++)
        sum += parts[part].iov_len;
    return sum;
}

/* ---- a disk that is full ---- */

static int has_no_room(int fd, off_t offset, size_t length)
{
    struct stat status;
    int error = (int)switches->growth_error;
    int kept = errno;

    if (error == 0 || length == 0 || !is_tracked(fd, &status))
        return 0;
    if (offset < 0)
        offset = fcntl(fd, F_GETFL) & O_APPEND ? status.st_size : lseek(fd, 0, SEEK_CUR);
    int grows = (uint64_t)offset + length > (uint64_t)status.st_size;
    errno = grows ? error : kept;
    return grows;
}

/* ---- the calls: writing ---- */

ssize_t write(int fd, const void *bytes, size_t length)
{
    if (has_no_room(fd, -1, length))
        return -1;
    int state = before_write(fd, -1, length);
    return after_write(fd, state, syscall(SYS_write, fd, bytes, length));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (has_no_room(fd, -1, total(parts, count)))
        return -1;
    int state = before_write(fd, -1, total(parts, count));
    return after_write(fd, state, syscall(SYS_writev, fd, parts, count));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    if (has_no_room(fd, offset, length))
        return -1;
    int state = before_write(fd, offset, length);
    return after_write(fd, state, syscall(SYS_pwrite64, fd, bytes, length, offset));
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (has_no_room(fd, offset, total(parts, count)))
        return -1;
    int state = before_write(fd, offset, total(parts, count));
    return after_write(fd, state, syscall(SYS_pwritev2, fd, parts, (long)count, offset, 0L, (long)flags));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    if (has_no_room(fd, offset, total(parts, count)))
        return -1;
    int state = before_write(fd, offset, total(parts, count));
    return after_write(fd, state, syscall(SYS_pwritev, fd, parts, (long)count, offset, 0L));
}

int ftruncate(int fd, off_t length)
{
    int state = before_write(fd, length, INT64_MAX - (size_t)length);
    return (int)after_write(fd, state, syscall(SYS_ftruncate, fd, length));
}

int truncate(const char *path, off_t length)
{
    int fd = open_file(path, O_RDWR);

    if (fd < 0)
        return (int)syscall(SYS_truncate, path, length);
    int result = ftruncate(fd, length);
    int kept = errno;
    close(fd);
    errno = kept;
    return result;
}

/* On 64-bit systems these are the same calls under another name. */
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    return pwrite(fd, bytes, length, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return pwritev(fd, parts, count, offset);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return pwritev2(fd, parts, count, offset, flags);
}

int ftruncate64(int fd, off64_t length)
{
    return ftruncate(fd, length);
}

int truncate64(const char *path, off64_t length)
{
    return truncate(path, length);
}

/* ---- the calls: syncing ---- */

static void wait_ms(uint32_t milliseconds)
{
    struct timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000L};
    int kept = errno;

    while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR)
        ;
    errno = kept;
}

/* Evenly, and not at random: a server that tries again gets through, and a test can count. */
static int sync_fails(void)
{
    static _Atomic uint64_t syncs;
    uint64_t share = switches->sync_errors_in_a_million;

    if (switches->sync_error == 0)
        return 0;
    uint64_t before = syncs++;
    return (before + 1) * share / 1000000 > before * share / 1000000;
}

static int sync_file(int fd, long call)
{
    struct stat status;

    if (!is_tracked(fd, &status))
        return (int)syscall(call, fd);
    /* Before the lock: others may write meanwhile. */
    if (switches->sync_delay_ms != 0)
        wait_ms(switches->sync_delay_ms);
    if (sync_fails()) {
        errno = (int)switches->sync_error;
        return -1;
    }
    /* Locked throughout: what is written while a sync is under way may or may not be part of it. */
    int state = lock_state(status.st_ino);
    int result = (int)syscall(call, fd);
    if (result == 0)
        mark_synced(fd, state);
    unlock_state(state);
    return result;
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

/* ---- the calls: names. An inode number is given out again, so the state goes with the file's last name. ---- */

static ino_t last_name_of(int folder, const char *path)
{
    struct stat status;
    int kept = errno;
    ino_t inode = 0;

    if (state_folder[0] != '\0' && fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && is_on_disk(&status) &&
        status.st_nlink == 1)
        inode = status.st_ino;
    errno = kept;
    return inode;
}

int unlinkat(int folder, const char *path, int flags)
{
    ino_t inode = last_name_of(folder, path);
    int result = (int)syscall(SYS_unlinkat, folder, path, flags);

    if (result == 0 && inode != 0)
        forget_state(inode);
    return result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int renameat2(int old_folder, const char *old_path, int new_folder, const char *new_path, unsigned int flags)
{
    ino_t replaced = last_name_of(new_folder, new_path);
    int result = (int)syscall(SYS_renameat2, old_folder, old_path, new_folder, new_path, flags);

    /* Still there if it was exchanged, or renamed to itself. */
    if (result == 0 && replaced != 0 && flags == 0 && last_name_of(new_folder, new_path) != replaced)
        forget_state(replaced);
    return result;
}

int renameat(int old_folder, const char *old_path, int new_folder, const char *new_path)
{
    return renameat2(old_folder, old_path, new_folder, new_path, 0);
}

int rename(const char *old_path, const char *new_path)
{
    return renameat2(AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
}
