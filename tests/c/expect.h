/* Checks for plain C programs: a false one says where and what, and ends the program. */
#ifndef TIERMAP_TESTS_EXPECT_H
#define TIERMAP_TESTS_EXPECT_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tiermap/tiermap.h"

#define EXPECT(condition)                                                                                        \
  do {                                                                                                           \
    if (!(condition)) {                                                                                          \
      fprintf(stderr, "%s:%d: not true: %s (errno %d, last error: %s)\n", __FILE__, __LINE__, #condition, errno, \
              tiermap_last_error());                                                                             \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

/* The condition holds, errno is what it should be, and the text has the word. */
#define EXPECT_FAILURE(condition, number, word)           \
  do {                                                    \
    errno = 0;                                            \
    EXPECT(condition);                                    \
    EXPECT(errno == (number));                            \
    EXPECT(strstr(tiermap_last_error(), (word)) != NULL); \
    EXPECT(strchr(tiermap_last_error(), '\n') == NULL);   \
  } while (0)

#endif
