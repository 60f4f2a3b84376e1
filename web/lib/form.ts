/** The text of a field; a file, which these forms do not have, counts as empty. */
export function readField(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}
