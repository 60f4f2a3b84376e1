import { type Field, textField } from '../../lib/fields.ts';
import { Secret } from '../../lib/secret.ts';
import { clusterIdField, serviceNameField } from '../../model/service/index.ts';

/** What only managers say to each other. */

export const uid = textField('an id of letters, digits and hyphens', /^[A-Za-z0-9-]{1,64}$/);
export const instance = textField('an id', /^[\x21-\x7e]{1,128}$/);
export const nonce = textField('16 to 64 letters, digits, hyphens and underscores', /^[\w-]{16,64}$/);

/** Stands in `If-Match`, between quotation marks. */
export const version = textField('a version', /^[\x21\x23-\x7e]{1,256}$/);

export const key: Field<Secret> = {
  is: 'a key of 16 to 256 printable characters',
  read: (raw) => (typeof raw === 'string' && /^[\x21-\x7e]{16,256}$/.test(raw) ? new Secret(raw) : undefined),
};

export const member: Field<string> = {
  is: '<cluster id>/<service>',
  read: (raw) => {
    const [cluster, service, ...more] = typeof raw === 'string' ? raw.split('/') : [];
    const legal =
      more.length === 0 && clusterIdField.read(cluster) !== undefined && serviceNameField.read(service) !== undefined;
    return legal ? String(raw) : undefined;
  },
};
