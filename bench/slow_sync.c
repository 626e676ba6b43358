/* A disk whose every sync takes a millisecond longer, for a process started with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

static int later(const char *name, int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(file), error = errno;
    struct timespec left = {0, 1000000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {}
    errno = error;
    return result;
}

int fsync(int file) { return later("fsync", file); }
int fdatasync(int file) { return later("fdatasync", file); }
