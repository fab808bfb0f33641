/* SPDX-License-Identifier: MIT
 *
 * Parses the arguments of a command by its tables of options, and prints its help.
 */
#include "options.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

int usage_error(const subcommand *command, const char *format, ...) {
  va_list arguments;
  if (!program_speaks()) return EXIT_USAGE;
  va_start(arguments, format);
  fprintf(stderr, "%s %s: ", program_name, command->name);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\nTry '%s %s --help'.\n", program_name, command->name);
  va_end(arguments);
  return EXIT_USAGE;
}

/* ---- Finding an option ------------------------------------------------------------------------ */

static const option *find_letter(const subcommand *command, char letter) {
  for (const option *const *table = command->options; *table; table++)
    for (const option *o = *table; o->kind; o++)
      if (o->letter && o->letter == letter) return o;
  return NULL;
}

static const option *find_name(const subcommand *command, const char *name, size_t length) {
  for (const option *const *table = command->options; *table; table++)
    for (const option *o = *table; o->kind; o++)
      if (o->name && strlen(o->name) == length && !strncmp(o->name, name, length)) return o;
  return NULL;
}

static int unknown_option(const subcommand *command, const char *typed) {
  enum { MOST = 64 };
  const char *names[MOST + 1];
  size_t many = 0;
  for (const option *const *table = command->options; *table; table++)
    for (const option *o = *table; o->kind; o++)
      if (o->name && many < MOST) names[many++] = o->name;
  names[many] = NULL;
  char word[64];
  snprintf(word, sizeof word, "%s", typed + strspn(typed, "-"));
  word[strcspn(word, "=")] = 0;
  const char *nearest = strncmp(typed, "--", 2) ? NULL : nearest_name(word, names);
  if (nearest) return usage_error(command, "there is no option %s; did you mean --%s?", typed, nearest);
  return usage_error(command, "there is no option %s", typed);
}

/* ---- Values ----------------------------------------------------------------------------------- */

static bool parse_real(const char *text, double *value) {
  char *end;
  double x = strtod(text, &end);
  if (end == text || *end || isnan(x)) return false;
  *value = x;
  return true;
}

/* A number, possibly with a fraction, and an optional suffix k, M, G or T in either case, each of them `thousand` (1000
 * or 1024) times the previous one. The result must be whole and below 2^63. */
static bool parse_scaled(const char *text, double thousand, uint64_t *value) {
  if (!isdigit((unsigned char)*text)) return false;
  char *end;
  double x = strtod(text, &end);
  if (*end) {
    static const char suffixes[] = "kmgt";
    const char *suffix = strchr(suffixes, tolower((unsigned char)*end));
    if (!suffix) return false;
    for (const char *s = suffixes; s <= suffix; s++)
      x *= thousand;
    end++;
    if (thousand == 1024 && !strcmp(end, "iB")) end += 2;
    if (*end) return false;
  } else if (strspn(text, "0123456789") == strlen(text) && strlen(text) < 19) {
    *value = strtoull(text, NULL, 10);
    return true;
  }
  if (!(x < 9.2e18) || x != floor(x)) return false;
  *value = (uint64_t)x;
  return true;
}

/* The number of the choice, from 1; 0 if the text is none of them. */
static int find_choice(const char *choices, const char *text) {
  size_t length = strlen(text);
  int number = 1;
  for (const char *at = choices;; number++) {
    size_t here = strcspn(at, "|");
    if (here == length && !strncmp(at, text, length)) return number;
    if (!at[here]) return 0;
    at += here + 1;
  }
}

static int wrong_value(const subcommand *command, const option *o, const char *text) {
  if (o->kind == OPTION_CHOICE) {
    char choices[128];
    size_t length = 0;
    for (const char *at = o->value; *at && length + 3 < sizeof choices; at++) {
      if (*at == '|') choices[length++] = ',';
      choices[length++] = *at == '|' ? ' ' : *at;
    }
    choices[length] = 0;
    return usage_error(command, "--%s: \"%s\" is none of %s", o->name, text, choices);
  }
  const char *what = o->kind == OPTION_REAL    ? "a number"
                     : o->kind == OPTION_COUNT ? "a count such as 1000, 10k or 2M"
                                               : "a size such as 512M or 4G";
  bool comma = o->kind == OPTION_REAL && strchr(text, ',');
  return usage_error(command, "--%s: \"%s\" is not %s%s", o->name, text, what,
                     comma ? "; decimals are written with a point" : "");
}

static int set_value(const subcommand *command, const option *o, void *request, const char *text) {
  void *field = (char *)request + o->into;
  bool good = true;
  if (o->kind == OPTION_FLAG) *(bool *)field = true;
  if (o->kind == OPTION_TEXT) *(const char **)field = text;
  if (o->kind == OPTION_REAL) good = parse_real(text, field);
  if (o->kind == OPTION_COUNT) good = parse_scaled(text, 1000, field);
  if (o->kind == OPTION_SIZE) good = parse_scaled(text, 1024, field);
  if (o->kind == OPTION_CHOICE) {
    int choice = find_choice(o->value, text);
    good = choice > 0;
    if (good) *(int *)field = choice;
  }
  return good ? EXIT_DONE : wrong_value(command, o, text);
}

/* ---- Arguments ------------------------------------------------------- */

typedef struct arguments {
  const subcommand *command;
  void *request;
  int argc, at;
  char **argv;
} arguments;

/* Takes the option at argv[at] and its value: --name=value, --name value, -n value, -nvalue. */
static int take_option(arguments *a) {
  const char *typed = a->argv[a->at], *attached = NULL;
  const option *o;
  if (typed[1] == '-') {
    size_t length = strcspn(typed + 2, "=");
    o = find_name(a->command, typed + 2, length);
    if (typed[2 + length]) attached = typed + 2 + length + 1;
  } else {
    o = find_letter(a->command, typed[1]);
    if (o && typed[2]) attached = typed + 2;
  }
  if (!o) return unknown_option(a->command, typed);
  if (o->kind == OPTION_FLAG) {
    if (attached) return usage_error(a->command, "%s: --%s takes no value", typed, o->name);
    return set_value(a->command, o, a->request, NULL);
  }
  if (!attached) {
    if (a->at + 1 >= a->argc) return usage_error(a->command, "%s needs a value (%s)", typed, o->value);
    attached = a->argv[++a->at];
  }
  return set_value(a->command, o, a->request, attached);
}

int options_parse(const subcommand *command, void *request, int argc, char **argv, const char **plain, int most) {
  arguments a = {.command = command, .request = request, .argc = argc, .argv = argv};
  int many = 0;
  bool only_plain = false;
  for (a.at = 1; a.at < argc; a.at++) {
    const char *typed = argv[a.at];
    if (!only_plain && !strcmp(typed, "--")) {
      only_plain = true;
    } else if (!only_plain && (!strcmp(typed, "--help") || !strcmp(typed, "-h"))) {
      options_print_help(command);
      return PARSE_HELP;
    } else if (!only_plain && typed[0] == '-' && typed[1]) {
      if (take_option(&a)) return PARSE_WRONG;
    } else if (many == most) {
      usage_error(command, "\"%s\" is one argument too many. Usage: %s %s %s", typed, program_name, command->name,
                  command->usage);
      return PARSE_WRONG;
    } else {
      plain[many++] = typed;
    }
  }
  return many;
}

/* ---- Help ------------------------------------------------------------------------------------- */

static void print_option(const option *o) {
  enum { COLUMN = 28 };
  char name[96];
  if (o->kind == OPTION_HEADING) {
    printf("\n%s\n", o->help);
    return;
  }
  int width = o->letter ? snprintf(name, sizeof name, "  -%c, --%s", o->letter, o->name)
                        : snprintf(name, sizeof name, "      --%s", o->name);
  if (o->value) width += snprintf(name + width, sizeof name - (size_t)width, " %s", o->value);
  if (width >= COLUMN)
    printf("%s\n%*s", name, COLUMN, "");
  else
    printf("%-*s", COLUMN, name);
  for (const char *at = o->help; *at; at++) {
    putchar(*at);
    if (*at == '\n') printf("%*s", COLUMN, "");
  }
  putchar('\n');
}

void options_print_help(const subcommand *command) {
  if (!program_speaks()) return;
  printf("%s %s: %s\n\n%s\nUsage: %s %s %s\n", program_name, command->name, command->summary, command->examples,
         program_name, command->name, command->usage);
  for (const option *const *table = command->options; *table; table++)
    for (const option *o = *table; o->kind; o++)
      print_option(o);
}
