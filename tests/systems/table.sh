#!/usr/bin/env bash
# Writes the table of docs/platforms.md from the rows that the tests of the label `systems` leave:   table.sh FOLDER
set -eu
page=$(dirname "$0")/../../docs/platforms.md
{
    sed '/^<!-- systems -->$/q' "$page"
    printf '| system | quickstart | tests | package |\n|---|---|---|---|\n'
    sort "$1"/rows/*.row
    sed -n '/^<!-- systems end -->$/,$p' "$page"
} >"$page.new"
mv "$page.new" "$page"
