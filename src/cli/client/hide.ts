/** Shown where something is that is not shown. */
const HIDDEN = '(hidden)';

/** Keys whose text is a secret wherever they stand in a definition or a configuration. */
const SECRET_KEYS = new Set([
  'token',
  'auth_password',
  'access_key',
  'secret_key',
  'password',
  'refresh_token',
  'oidc_refresh_token',
]);

/** Maps all of whose values are secrets. */
const SECRET_MAPS = new Set(['secrets', 'headers']);

/** A copy without secrets; what is empty stays so, since that says something too. */
export function hideSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hideSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name = key.toLowerCase();
      if (SECRET_KEYS.has(name) && typeof inner === 'string') return [key, masked(inner)];
      if (SECRET_MAPS.has(name) && typeof inner === 'object' && inner !== null) {
        return [key, Object.fromEntries(Object.entries(inner).map(([each, text]) => [each, masked(text)]))];
      }
      return [key, hideSecrets(inner)];
    }),
  );
}

const masked = (text: unknown) => (text === '' || text === 'hidden' ? text : HIDDEN);
