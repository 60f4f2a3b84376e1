import { S3Error } from './errors.ts';

/** An element with its text and its child elements. S3 uses neither attributes nor namespaces. */
export interface Element {
  readonly name: string;
  text: string;
  readonly children: Element[];
}

/** Requests of S3 are less deep. */
const DEEPEST = 12;

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

const TOKEN =
  /<\?[^>]*\?>|<!--[^]*?-->|<!\[CDATA\[([^]*?)\]\]>|<(\/?)([^\s<>/!?]+)((?:\s+[^\s=<>/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|[^<]+/y;

/**
 * Parses the small documents that S3 clients send. Document types are rejected, and with them custom entities (XML
 * bombs, files of the server), as is deep nesting. The caller limits the size.
 */
export function readXml(text: string, root: string): Element {
  const top: Element = { name: '', text: '', children: [] };
  const open: Element[] = [top];
  TOKEN.lastIndex = 0;
  const source = text.startsWith('\ufeff') ? text.slice(1) : text;
  while (TOKEN.lastIndex < source.length) {
    const match = TOKEN.exec(source);
    if (!match) throw new S3Error('MalformedXML');
    appendToken(open, match);
  }
  const [document] = top.children;
  if (open.length !== 1 || top.children.length !== 1 || !document || top.text.trim() !== '') {
    throw new S3Error('MalformedXML');
  }
  if (document.name !== root) throw new S3Error('MalformedXML', `The document must have the root element ${root}.`);
  return document;
}

function appendToken(open: Element[], [token, cdata, closing, name, , empty]: RegExpExecArray): void {
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
    if (open.length > DEEPEST) throw new S3Error('MalformedXML', 'The document is nested too deeply.');
  }
}

const localName = (name: string) => name.slice(name.indexOf(':') + 1);

function resolveEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&([^;&]*);?/g, (reference, name: string) => {
    const known = ENTITIES[name] ?? decodeCharacterReference(name);
    if (known === undefined || !reference.endsWith(';'))
      throw new S3Error('MalformedXML', 'The document has an unknown entity.');
    return known;
  });
}

function decodeCharacterReference(name: string): string | undefined {
  const match = /^#(?:x([0-9a-fA-F]{1,6})|(\d{1,7}))$/.exec(name);
  if (!match) return undefined;
  const point = match[1] === undefined ? Number(match[2]) : Number.parseInt(match[1], 16);
  return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff) ? String.fromCodePoint(point) : undefined;
}

/** The child elements with this name. */
export function childElements(element: Element, name: string): Element[] {
  return element.children.filter((child) => child.name === name);
}

/** The text of the first child element with this name. */
export function childText(element: Element, name: string): string | undefined {
  return element.children.find((child) => child.name === name)?.text;
}

/** The content of an element: a text, elements by name (an array repeats its element), or undefined. */
type Content = string | number | boolean | undefined | Elements;
export interface Elements {
  readonly [name: string]: Content | readonly Content[];
}

const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/';

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** Control characters become references: otherwise XML changes them (a carriage return) or the document is invalid. */
export function escapeXml(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/[&<>"\u0000-\u001f\ufffe\uffff]/g, (c) => ESCAPES[c] ?? `&#x${c.charCodeAt(0).toString(16)};`);
}

/** Writes a document whose root has S3's namespace. Undefined elements are omitted. */
export function writeXml(root: string, content: Elements, namespace: string | undefined = NAMESPACE): string {
  const opening = namespace ? `${root} xmlns="${namespace}"` : root;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${opening}>${writeElements(content)}</${root}>`;
}

function writeElements(content: Elements): string {
  let text = '';
  for (const [name, value] of Object.entries(content)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? (value as readonly Content[]) : [value as Content]) {
      text += `<${name}>${typeof each === 'object' ? writeElements(each) : escapeXml(String(each ?? ''))}</${name}>`;
    }
  }
  return text;
}
