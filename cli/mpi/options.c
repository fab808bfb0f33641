/* SPDX-License-Identifier: MIT
 *
 * The options that only adjoin-mpi has.
 */
#include "../join.h"

#define FIELD(name) offsetof(join_request, name)

const option join_program_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "On several ranks (none of these changes the result)"},
    {OPTION_CHOICE, 0, "distribution", "auto|replicated|ring|halo", FIELD(distribution),
     "halo: each rank joins a region of space and what\nis near it. ring: blocks of points pass all ranks.\n"
     "replicated: every rank has all points of B.\nDefault: auto, which --explain explains"},
    {OPTION_FLAG, 0, "split", NULL, FIELD(split),
     "write a file for each rank, FILE with its number in\nthe name, and a list of them with the ending .json"},
    {OPTION_TEXT, 0, "checkpoint", "FOLDER", FIELD(checkpoint),
     "keep finished blocks of rows there. A run that was\nstopped goes on from them, on any number of ranks"},
    {OPTION_COUNT, 0, "checkpoint-blocks", "N", FIELD(checkpoint_blocks),
     "blocks of a new checkpoint. Default: 16. More lose\nless, and take longer: each block is a join"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};
