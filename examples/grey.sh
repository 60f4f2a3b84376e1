#!/bin/sh
# Turns a picture grey: plain PPM (P3) in, plain PGM (P2) out. Needs awk, which every system and busybox has.
set -e
file=$(basename "$INPUT_FILE_PATH" .ppm)
sed 's/#.*//' "$INPUT_FILE_PATH" | tr -s '[:space:]' '\n' | awk '
  NF == 0 { next }
  { n++ }
  n == 1 && $1 != "P3" { print "only plain PPM (P3) can be turned grey here, not " $1 > "/dev/stderr"; exit 1 }
  n == 1 { print "P2" }
  n > 1 && n < 5 { print }
  n > 4 && n % 3 == 2 { red = $1 }
  n > 4 && n % 3 == 0 { green = $1 }
  n > 4 && n % 3 == 1 { printf "%d\n", 0.299 * red + 0.587 * green + 0.114 * $1 + 0.5 }
' >"$TMP_OUTPUT_DIR/$file.pgm"
echo "$file.ppm is $file.pgm now"
