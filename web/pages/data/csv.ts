/** The first rows of a table (RFC 4180): fields may be quoted, and then contain separators, quotes and line breaks. */
export function parseCsv(text: string, separator: string, mostRows: number): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let quoted = false;
  const endField = () => {
    row.push(field);
    field = '';
  };
  const endRow = () => {
    endField();
    if (row.length > 1 || row[0] !== '') rows.push(row);
    row = [];
  };
  for (let at = 0; at < text.length && rows.length < mostRows; at++) {
    const letter = text[at] ?? '';
    if (quoted) {
      if (letter !== '"') field += letter;
      else if (text[at + 1] === '"') {
        field += '"';
        at++;
      } else quoted = false;
    } else if (letter === '"' && field === '') quoted = true;
    else if (letter === separator) endField();
    else if (letter === '\n') endRow();
    else if (letter !== '\r') field += letter;
  }
  if (rows.length < mostRows && (field !== '' || row.length > 0)) endRow();
  return rows;
}
