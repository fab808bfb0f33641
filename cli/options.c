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
#include <strings.h>

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

/* What other programs call an option, and what it is here: its name, perhaps with a value. */
static const char *find_foreign(const subcommand *command, const char *word) {
  static const struct {
    const char *typed, *here;
  } names[] = {{"eps", "radius"},
               {"epsilon", "radius"},
               {"min-samples", "min-points"},
               {"min_samples", "min-points"},
               {"radians", "angle radians"},
               {"degrees", "angle degrees"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(word, names[i].typed) && find_name(command, names[i].here, strcspn(names[i].here, " ")))
      return names[i].here;
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
  if ((typed[0] == '-' && typed[1] == 'k') || !strcmp(word, "neighbours") || !strcmp(word, "neighbors"))
    return usage_error(command, "there is no option %s; '%s knn' finds the K nearest", typed, program_name);
  const char *nearest = strncmp(typed, "--", 2) ? NULL : find_foreign(command, word);
  if (!nearest && !strncmp(typed, "--", 2)) nearest = nearest_name(word, names);
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
 * or 1024) times the previous one; of a size also kB or KiB. The result must be whole and below 2^63. */
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
    if (thousand == 1024 && (!strcasecmp(end, "b") || !strcasecmp(end, "ib"))) end += strlen(end);
    if (*end) return false;
  } else if (strspn(text, "0123456789") == strlen(text) && strlen(text) < 19) {
    *value = strtoull(text, NULL, 10);
    return true;
  }
  if (!(x < 9.2e18) || x != floor(x)) return false;
  *value = (uint64_t)x;
  return true;
}

/* Other words for choices, and what to do about words that are no choice. */
typedef struct other_word {
  const char *option, *typed, *choice, *remedy;
} other_word;

static const other_word *find_other_word(const option *o, const char *text) {
  static const char kilometres[] = "give metres: kilometres times 1000", miles[] = "give metres: miles times 1609.344";
  static const other_word words[] = {{"metric", "euclidean", "l2", NULL},
                                     {"metric", "manhattan", "l1", NULL},
                                     {"metric", "cityblock", "l1", NULL},
                                     {"metric", "chebyshev", "linf", NULL},
                                     {"metric", "minkowski", "lp", NULL},
                                     {"type", "float32", "f32", NULL},
                                     {"type", "float64", "f64", NULL},
                                     {"unit", "meters", "metres", NULL},
                                     {"unit", "metre", "metres", NULL},
                                     {"unit", "meter", "metres", NULL},
                                     {"unit", "m", "metres", NULL},
                                     {"unit", "km", NULL, kilometres},
                                     {"unit", "kilometres", NULL, kilometres},
                                     {"unit", "kilometers", NULL, kilometres},
                                     {"unit", "mi", NULL, miles},
                                     {"unit", "miles", NULL, miles}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].option, o->name) && !strcasecmp(words[i].typed, text)) return &words[i];
  return NULL;
}

/* The number of the choice, from 1, in upper or lower case; 0 if the text is none of them. */
static int find_choice(const char *choices, const char *text) {
  size_t length = strlen(text);
  int number = 1;
  for (const char *at = choices;; number++) {
    size_t here = strcspn(at, "|");
    if (here == length && !strncasecmp(at, text, length)) return number;
    if (!at[here]) return 0;
    at += here + 1;
  }
}

static bool parse_choice(const option *o, const char *text, int *choice) {
  const other_word *other = find_other_word(o, text);
  int number = find_choice(o->value, other && other->choice ? other->choice : text);
  if (number) *choice = number;
  return number > 0;
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
    const other_word *other = find_other_word(o, text);
    return usage_error(command, "--%s: \"%s\" is none of %s%s%s", o->name, text, choices,
                       other && other->remedy ? "; " : "", other && other->remedy ? other->remedy : "");
  }
  const char *what = o->kind == OPTION_REAL   ? "a number"
                     : o->kind == OPTION_SIZE ? "a size such as 512M or 4G"
                                              : "a count such as 1000, 10k or 2M";
  bool comma = o->kind == OPTION_REAL && strchr(text, ',');
  return usage_error(command, "--%s: \"%s\" is not %s%s", o->name, text, what,
                     comma ? "; decimals are written with a point" : "");
}

static int set_value(const subcommand *command, const option *o, void *request, char *text) {
  void *field = (char *)request + o->into;
  bool good = true;
  if (o->kind == OPTION_FLAG) *(bool *)field = true;
  if (o->kind == OPTION_NAME)
    for (char *at = text; *at; at++)
      *at = (char)tolower((unsigned char)*at);
  if (o->kind == OPTION_TEXT || o->kind == OPTION_NAME) *(const char **)field = text;
  if (o->kind == OPTION_REAL) good = parse_real(text, field);
  if (o->kind == OPTION_COUNT || o->kind == OPTION_NUMBER) good = parse_scaled(text, 1000, field);
  if (o->kind == OPTION_SIZE) good = parse_scaled(text, 1024, field);
  if (o->kind == OPTION_CHOICE) good = parse_choice(o, text, field);
  if (!good) return wrong_value(command, o, text);
  if ((o->kind == OPTION_NUMBER || o->kind == OPTION_SIZE) && !*(const uint64_t *)field)
    return usage_error(command, "--%s: %s: must be at least 1", o->name, text);
  return EXIT_DONE;
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
  char *typed = a->argv[a->at], *attached = NULL;
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
