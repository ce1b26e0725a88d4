// Stands between a program and its disk (LD_PRELOAD). It journals what is written below FAULTY_DISK, so that
// faulty-disk.ts can tell what a power cut leaves, delays syncs, and refuses writes while the disk is "full". SQLite
// writes with these four functions; its -shm file is mapped, and means nothing after a power cut.
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

struct header {
  uint32_t kind;
  uint32_t path_length;
  uint32_t data_length;
  uint32_t unused;
  int64_t offset;
};

static const char *disk;
static const char *full_flag;
static useconds_t sync_delay_us;
static int journal;

__attribute__((constructor)) static void start(void)
{
  disk = getenv("FAULTY_DISK");
  full_flag = getenv("FAULTY_DISK_FULL");
  sync_delay_us = 1000 * atoi(getenv("FAULTY_DISK_SYNC_MS"));
  journal = open(getenv("FAULTY_DISK_JOURNAL"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

// Returns the path if it is on the faulty disk, otherwise NULL.
static const char *on_disk(const char *path)
{
  return strncmp(path, disk, strlen(disk)) == 0 ? path : NULL;
}

static const char *path_of(int fd, char path[PATH_MAX])
{
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length < 0 ? 0 : length] = '\0';
  return on_disk(path);
}

// One write, so that records of several processes do not mix.
static void record(char kind, const char *path, const void *data, size_t length, off64_t offset)
{
  struct header header = { kind, strlen(path), length, 0, offset };
  struct iovec parts[] = {
    { &header, sizeof header }, { (void *)path, strlen(path) }, { (void *)data, length } };
  if (writev(journal, parts, 3) < 0)
    abort();
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset)
{
  ssize_t (*next)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
  char buffer[PATH_MAX];
  const char *path = path_of(fd, buffer);
  if (path != NULL && access(full_flag, F_OK) == 0) {
    errno = ENOSPC;
    return -1;
  }
  if (path != NULL)
    record('W', path, data, length, offset);
  return next(fd, data, length, offset);
}

int ftruncate64(int fd, off64_t length)
{
  int (*next)(int, off64_t) = dlsym(RTLD_NEXT, "ftruncate64");
  char buffer[PATH_MAX];
  const char *path = path_of(fd, buffer);
  if (path != NULL)
    record('T', path, NULL, 0, length);
  return next(fd, length);
}

int fsync(int fd)
{
  int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
  char buffer[PATH_MAX];
  const char *path = path_of(fd, buffer);
  if (path != NULL) {
    usleep(sync_delay_us);
    record('S', path, NULL, 0, 0);
  }
  return next(fd);
}

int unlink(const char *path)
{
  int (*next)(const char *) = dlsym(RTLD_NEXT, "unlink");
  if (on_disk(path) != NULL)
    record('U', path, NULL, 0, 0);
  return next(path);
}
