import { trimEnds } from '../lib/trim.ts';

/** Longest value of a Kubernetes label. */
const LABEL_LENGTH = 63;

/** Letters that Unicode does not decompose into a plain letter and an accent. */
// biome-ignore format: pairs
const PLAIN: Readonly<Record<string, string>> = {
  Æ: 'AE', æ: 'ae', Đ: 'D', đ: 'd', Ð: 'D', ð: 'd', Ł: 'L', ł: 'l', Ø: 'O', ø: 'o',
  Œ: 'OE', œ: 'oe', ß: 'ss', ẞ: 'SS', Þ: 'Th', þ: 'th', ı: 'i',
};

/**
 * The value of the label `owner_name`: a user's name without accents and with `_` for spaces
 * (docs/go-manager.md#labels-and-annotations), always a legal label value. A name without Latin letters becomes
 * `unnamed`; the owner is identified by the uid.
 *
 * @example
 * ownerNameLabel('José Łoś'); // 'Jose_Los'
 */
export function ownerNameLabel(name: string): string {
  const latin = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^\p{ASCII}]/gu, (letter) => PLAIN[letter] ?? letter)
    .replace(/\s+/g, '_')
    .replace(/[^A-Za-z0-9._-]/g, '');
  const legal = trimToAlphanumeric(trimToAlphanumeric(latin).slice(0, LABEL_LENGTH));
  return legal === '' ? 'unnamed' : legal;
}

function trimToAlphanumeric(text: string): string {
  return trimEnds(text, (each) => '._-'.includes(each));
}
