/* Checks for programs in C and C++: a false one says where, what and errno, and ends the program. */
#ifndef TIERMAP_TESTS_UMAP_EXPECT_H
#define TIERMAP_TESTS_UMAP_EXPECT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                             \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)

#endif
