/** The content of an element: a text, elements by name (an array repeats its element), or nothing. */
export type Content = string | number | boolean | undefined | Elements;
export interface Elements {
  readonly [name: string]: Content | readonly Content[];
}

const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/';

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Control characters are references: XML would otherwise change them (a carriage return) or end the document. */
export function escapeXml(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/[&<>"\u0000-\u001f\ufffe\uffff]/g, (c) => ESCAPES[c] ?? `&#x${c.charCodeAt(0).toString(16)};`);
}

/** A document whose root has S3's namespace. Undefined elements are left out. */
export function writeXml(root: string, content: Elements, namespace: string | undefined = NAMESPACE): string {
  const opening = namespace ? `${root} xmlns="${namespace}"` : root;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${opening}>${inside(content)}</${root}>`;
}

function inside(content: Elements): string {
  let text = '';
  for (const [name, value] of Object.entries(content)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? (value as readonly Content[]) : [value as Content]) {
      text += `<${name}>${typeof each === 'object' ? inside(each) : escapeXml(String(each ?? ''))}</${name}>`;
    }
  }
  return text;
}
