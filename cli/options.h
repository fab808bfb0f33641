/* SPDX-License-Identifier: MIT
 *
 * Command lines. A command lists its options in tables, which are used both to parse the arguments and to print the
 * help.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stddef.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum option_kind {
  OPTION_END = 0, /* ends a table                                                              */
  OPTION_HEADING, /* help is the text of a heading                                             */
  OPTION_FLAG,    /* bool: set to true                                                         */
  OPTION_TEXT,    /* const char *                                                              */
  OPTION_REAL,    /* double                                                                    */
  OPTION_COUNT,   /* uint64_t: 1000, 10k, 2M, 1.5G (powers of 1000)                            */
  OPTION_NUMBER,  /* a count of at least 1                                                     */
  OPTION_SIZE,    /* uint64_t, bytes, at least 1: 4G, 4GB, 512M, 100k (powers of 1024)         */
  OPTION_NAME,    /* const char *, in lower case: the argument itself is changed               */
  OPTION_CHOICE   /* int: value is "one|two|three"; set to 1, 2 or 3                           */
} option_kind;

typedef struct option {
  option_kind kind;
  char letter;       /* 0: none                                    */
  const char *name;  /* without the dashes                         */
  const char *value; /* its name in the help, or the choices       */
  size_t into;       /* offset of the field in the request struct  */
  const char *help;  /* may have several lines                     */
} option;

/* A subcommand. */
typedef struct subcommand {
  const char *name;
  const char *summary;          /* one line                                    */
  const char *usage;            /* the arguments after "adjoin NAME"           */
  const char *examples;         /* lines, ready to print                       */
  const option *const *options; /* tables, ended by NULL; NULL: run() parses   */
  int (*run)(const struct subcommand *command, int argc, char **argv);
} subcommand;

/* Returned by options_parse instead of a number of arguments. */
enum { PARSE_WRONG = -1, PARSE_HELP = -2 };

/* Parses argv[1] and later (argv[0] is the name of the command). Options go to the fields of request, other arguments
 * to plain, which has room for `most`. Returns the number of other arguments, PARSE_WRONG after an error message, or
 * PARSE_HELP after printing the help. */
int options_parse(const subcommand *command, void *request, int argc, char **argv, const char **plain, int most);

void options_print_help(const subcommand *command);

/* Prints "adjoin range: MESSAGE" and where to find help. Returns EXIT_USAGE. */
int usage_error(const subcommand *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The name that was probably meant, or NULL if none is similar. names ends with NULL. */
const char *nearest_name(const char *typed, const char *const *names);

#endif
