#!/bin/sh
# Writes the file that has arrived in capital letters.
set -e
tr '[:lower:]' '[:upper:]' <"$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")"
echo "$(wc -c <"$INPUT_FILE_PATH") bytes are in capital letters now"
