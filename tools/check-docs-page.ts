/** What of a page in Markdown can be right or wrong. Lines count from 1. */
export interface Page {
  readonly links: readonly { readonly line: number; readonly target: string }[];
  /** Inline code. */
  readonly code: readonly { readonly line: number; readonly text: string }[];
  /** Fenced blocks, with the words behind their fence. */
  readonly blocks: readonly Block[];
  /** What links can point to, by the rule of GitHub. */
  readonly anchors: ReadonlySet<string>;
}

interface Block {
  readonly line: number;
  readonly info: string;
  readonly text: string;
}

const FENCE = /^\s*(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^#{1,6}[ \t]+(.+?)[ \t]*#*$/gm;
/** Ends with as many backticks as it began with, within its paragraph. */
const CODE = /(?<!`)(`+)((?:(?!\n\s*\n)[^])+?)(?<!`)\1(?!`)/g;
const LINK = /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g;

/** Reads as much of Markdown as our pages use. */
export function readPage(text: string): Page {
  const { blocks, prose } = withoutBlocks(text);
  const lineAt = (index: number) => prose.slice(0, index).split('\n').length;
  const code = [...prose.matchAll(CODE)].map(({ index, 2: span = '' }) => ({ line: lineAt(index), text: span.trim() }));
  const plain = prose.replace(CODE, (span) => span.replace(/[^\n]/g, ' '));
  const links = [...plain.matchAll(LINK)].map(({ index, 1: target = '' }) => ({ line: lineAt(index), target }));
  const titles = [...prose.matchAll(HEADING)].map(({ 1: title = '' }) => title);
  return { links, code, blocks, anchors: anchorsOf(titles) };
}

/** The fenced blocks, and the page with empty lines in their places. */
function withoutBlocks(text: string): { blocks: Block[]; prose: string } {
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: { fence: string; line: number; info: string; lines: string[] } | undefined;
  for (const [index, content] of text.split('\n').entries()) {
    const [, fence = '', info = ''] = FENCE.exec(content) ?? [];
    prose.push(open || fence !== '' ? '' : content);
    if (!open) {
      if (fence !== '') open = { fence, line: index + 1, info: info.trim(), lines: [] };
    } else if (fence.startsWith(open.fence) && info === '') {
      blocks.push({ line: open.line, info: open.info, text: open.lines.join('\n') });
      open = undefined;
    } else open.lines.push(content);
  }
  return { blocks, prose: prose.join('\n') };
}

/** Of two headings that are alike the second one is `…-1`. */
function anchorsOf(titles: readonly string[]): Set<string> {
  const anchors = new Set<string>();
  const times = new Map<string, number>();
  for (const title of titles) {
    const anchor = anchorOf(title);
    const before = times.get(anchor) ?? 0;
    times.set(anchor, before + 1);
    anchors.add(before === 0 ? anchor : `${anchor}-${before}`);
  }
  return anchors;
}

/** The last part of the address of a heading. */
export function anchorOf(title: string): string {
  return title
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}
