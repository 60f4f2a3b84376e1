/** Printed in place of a secret. */
const HIDDEN = '(hidden)';

/** Keys whose value is a secret, anywhere in a definition or configuration. */
const SECRET_KEYS = new Set([
  'token',
  'auth_password',
  'access_key',
  'secret_key',
  'password',
  'refresh_token',
  'oidc_refresh_token',
]);

/** Maps whose values are all secrets. */
const SECRET_MAPS = new Set(['secrets', 'headers']);

/** A copy without secrets. Empty values stay empty, because that is information too. */
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
