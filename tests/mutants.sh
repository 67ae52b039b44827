#!/usr/bin/env bash
# Mutation testing: picks places of the product's sources with a seed, changes one at a time, and reports which changes
# no test notices.  Not part of a default run; by hand, or as
#
#   ctest --test-dir build -C mutants -L mutants
#
#   tests/mutants.sh [--seed N] [--number N] [--module FOLDER]... [--tests REGEX] [--seconds S] [--jobs N] [--list] ...
#
# Seven in ten places are of C: operators of comparison, arithmetic and logic, numbers, statements that are left out.  Two
# in ten are of GLSL, in templates and in the code that writes kernels; one in ten is a number or flag of a table's row.
# Statements that only lock or release something are not left out: races and leaks are what the sanitizers look for.
#
#   1. A copy of the sources is built once with all mutants of C, of which the environment variable DOP_MUTANT selects one
#      at run time (tests/mutants/mutant.h); this exists in that copy only.  What does not compile is replaced by a spare.
#   2. Every default test runs once without a mutant.  DOP_MUTANT_LOG shows which mutants it reaches.
#   3. Every mutant runs with the tests that reach it, the shortest first, until one fails: it is killed.  Templates and
#      tables are changed in the copy, one after the other, and built where that is needed.
#
# A second call with the same seed, number and modules goes on where the first one ended, and tries only survivors: with
# other --tests or, with --again, with tests that have changed.  Each survivor is to be judged: equivalent (nothing that is
# promised differs), or a hole of the tests, which is closed for all places of its kind.  docs/promises.md has the last counts.
set -u
here=$(cd "$(dirname "$0")" && pwd)
icd=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' | head -n 1)
[ -z "$icd" ] || export VK_ICD_FILENAMES=$icd VK_DRIVER_FILES=$icd
export LC_ALL=C.UTF-8 GALLIVM_PERF=nopt PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/mutants/mutants.py" "$@"
