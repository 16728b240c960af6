/* A program that forks while another of its threads calls fopen() for the first time: a library that takes the place of
 * that call is looking for the C library's. The child prints that it can open a stream, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t looking;
static sem_t forked;
static atomic_int to_wait; /* From when on a thread that looks for fopen() waits. */

void* dlsym(void* restrict handle, const char* restrict name) {
  void* (*look_up)(void*, const char*) = NULL;
  static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (size_t version = 0; look_up == NULL && version < sizeof versions / sizeof *versions; ++version) {
    *(void**)&look_up = dlvsym(RTLD_NEXT, "dlsym", versions[version]);
  }
  if (strcmp(name, "fopen") == 0 && atomic_exchange(&to_wait, 0)) {
    sem_post(&looking);
    sem_wait(&forked);
  }
  return look_up(handle == RTLD_NEXT ? dlopen("libc.so.6", RTLD_NOW) : handle, name);
}

static void* open_stream(void* none) {
  FILE* const stream = fopen("/dev/null", "r");
  return stream == NULL ? none : stream;
}

int main(void) {
  sem_init(&looking, 0, 0);
  sem_init(&forked, 0, 0);
  atomic_store(&to_wait, 1);
  pthread_t thread;
  pthread_create(&thread, NULL, open_stream, NULL);
  sem_wait(&looking);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    const char* const said = open_stream(NULL) != NULL ? "opened" : "refused";
    _exit(write(STDOUT_FILENO, said, strlen(said)) < 0);
  }
  sem_post(&forked);
  pthread_join(thread, NULL);
  int status = 0;
  return waitpid(child, &status, 0) == child ? status != 0 : 1;
}
