#!/bin/sh
# Turns the picture that has arrived grey, with ImageMagick.
set -e
file=$(basename "$INPUT_FILE_PATH")
if command -v magick >/dev/null; then tool=magick
elif convert -version 2>/dev/null | grep -q ImageMagick; then tool=convert
else
  echo "ImageMagick is not installed here, so $file stays as it is." >&2
  echo "Run this service in its image (with Docker or Podman), or install ImageMagick." >&2
  exit 1
fi
"$tool" "$INPUT_FILE_PATH" -colorspace Gray "$TMP_OUTPUT_DIR/$file"
echo "$file is grey now"
