// A library that is loaded with LD_PRELOAD and replaces the functions with which SQLite changes files. For files below
// the directory FAULTY_DISK, it
// - logs each change and sync to FAULTY_DISK_LOG, from which faulty-disk.ts computes what remains after a power cut,
// - delays each sync by FAULTY_DISK_SYNC_MS,
// - rejects writes while the file FAULTY_DISK_FULL exists.
// SQLite's -shm file is memory-mapped, so its changes are not logged. After a power cut, SQLite does not need it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct log_header {
  uint32_t kind;
  uint32_t path_length;
  uint32_t data_length;
  uint32_t unused;
  int64_t offset;
};

static const char *disk_dir;
static const char *full_flag_file;
static useconds_t sync_delay_us;
static int log_fd;

__attribute__((constructor)) static void read_settings(void)
{
  disk_dir = getenv("FAULTY_DISK");
  full_flag_file = getenv("FAULTY_DISK_FULL");
  sync_delay_us = 1000 * atoi(getenv("FAULTY_DISK_SYNC_MS"));
  log_fd = open(getenv("FAULTY_DISK_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_on_disk(const char *path)
{
  return strncmp(path, disk_dir, strlen(disk_dir)) == 0;
}

// Writes the path of an open file to `path`. Returns NULL if the file is not on the faulty disk.
static const char *path_on_disk(int fd, char path[PATH_MAX])
{
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
  return is_on_disk(path) ? path : NULL;
}

// Appends a log entry with a single write, so that entries of several processes do not mix.
static void log_operation(char kind, const char *path, const void *data, size_t length, off64_t offset)
{
  struct log_header header = { kind, strlen(path), length, 0, offset };
  struct iovec parts[] = {
    { &header, sizeof header }, { (void *)path, strlen(path) }, { (void *)data, length } };
  if (writev(log_fd, parts, 3) < 0)
    abort();
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset)
{
  ssize_t (*original)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
  char buffer[PATH_MAX];
  const char *path = path_on_disk(fd, buffer);
  if (path != NULL && access(full_flag_file, F_OK) == 0) {
    errno = ENOSPC;
    return -1;
  }
  if (path != NULL)
    log_operation('W', path, data, length, offset);
  return original(fd, data, length, offset);
}

int ftruncate64(int fd, off64_t length)
{
  int (*original)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
  char buffer[PATH_MAX];
  const char *path = path_on_disk(fd, buffer);
  if (path != NULL)
    log_operation('T', path, NULL, 0, length);
  return original(fd, length);
}

int fsync(int fd)
{
  int (*original)(int) = dlsym(RTLD_NEXT, "fsync");
  char buffer[PATH_MAX];
  const char *path = path_on_disk(fd, buffer);
  if (path != NULL) {
    usleep(sync_delay_us);
    log_operation('S', path, NULL, 0, 0);
  }
  return original(fd);
}

int unlink(const char *path)
{
  int (*original)(const char *) = dlsym(RTLD_NEXT, "unlink");
  if (is_on_disk(path))
    log_operation('U', path, NULL, 0, 0);
  return original(path);
}
