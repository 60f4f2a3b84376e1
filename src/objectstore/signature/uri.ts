const UNRESERVED = /^[A-Za-z0-9\-._~]*$/;
const UNRESERVED_PATH = /^[A-Za-z0-9\-._~/]*$/;

/** RFC 3986: everything but the unreserved characters is encoded, in capital hex digits. */
export function encodeComponent(text: string): string {
  if (UNRESERVED.test(text)) return text;
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The same, with slashes left as they are: a path as it is signed, and a key as a listing shows it. */
export function encodePath(path: string): string {
  return UNRESERVED_PATH.test(path) ? path : path.split('/').map(encodeComponent).join('/');
}

/** Undefined for what is not percent-encoded UTF-8. */
export function decodeComponent(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
