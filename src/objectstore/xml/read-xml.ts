import { S3Error } from '../errors.ts';

/** An element with its text and the elements in it. Attributes and namespaces mean nothing to S3. */
export interface Element {
  readonly name: string;
  text: string;
  readonly children: Element[];
}

/** Deeper than any request of S3. */
const DEEPEST = 12;

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const TOKEN =
  /<\?[^>]*\?>|<!--[^]*?-->|<!\[CDATA\[([^]*?)\]\]>|<(\/?)([^\s<>/!?]+)((?:\s+[^\s=<>/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|[^<]+/y;

/**
 * Reads the small documents that S3 clients send. No document types and so no entities of one's own (XML bombs, files
 * of the server), no deep nesting; the size is limited by whoever received the bytes.
 */
export function readXml(text: string, root: string): Element {
  const top: Element = { name: '', text: '', children: [] };
  const open: Element[] = [top];
  TOKEN.lastIndex = 0;
  const source = text.startsWith('\ufeff') ? text.slice(1) : text;
  while (TOKEN.lastIndex < source.length) {
    const match = TOKEN.exec(source);
    if (!match) throw new S3Error('MalformedXML');
    take(open, match);
  }
  const [document] = top.children;
  if (open.length !== 1 || top.children.length !== 1 || !document || top.text.trim() !== '') {
    throw new S3Error('MalformedXML');
  }
  if (document.name !== root) throw new S3Error('MalformedXML', `The document must be a ${root}.`);
  return document;
}

function take(open: Element[], [token, cdata, closing, name, , empty]: RegExpExecArray): void {
  const current = open.at(-1);
  if (!current) throw new S3Error('MalformedXML');
  if (cdata !== undefined) current.text += cdata;
  else if (name === undefined) {
    if (!token.startsWith('<')) current.text += resolveEntities(token);
  } else if (closing) {
    open.pop();
    if (current.name !== localName(name) || open.length === 0) throw new S3Error('MalformedXML');
  } else {
    const element: Element = { name: localName(name), text: '', children: [] };
    current.children.push(element);
    if (!empty) open.push(element);
    if (open.length > DEEPEST) throw new S3Error('MalformedXML', 'The document is nested too deep.');
  }
}

const localName = (name: string) => name.slice(name.indexOf(':') + 1);

function resolveEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&([^;&]*);?/g, (reference, name: string) => {
    const known = ENTITIES[name] ?? characterOf(name);
    if (known === undefined || !reference.endsWith(';'))
      throw new S3Error('MalformedXML', 'The document has an unknown entity.');
    return known;
  });
}

function characterOf(name: string): string | undefined {
  const match = /^#(?:x([0-9a-fA-F]{1,6})|(\d{1,7}))$/.exec(name);
  if (!match) return undefined;
  const point = match[1] === undefined ? Number(match[2]) : Number.parseInt(match[1], 16);
  return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? String.fromCodePoint(point) : undefined;
}

/** The elements of that name directly in this one. */
export function all(element: Element, name: string): Element[] {
  return element.children.filter((child) => child.name === name);
}

/** The text of the first element of that name directly in this one. */
export function textOf(element: Element, name: string): string | undefined {
  return element.children.find((child) => child.name === name)?.text;
}
