import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdentityError } from './errors.ts';
import { chooseVo, type VoRequest } from './vo.ts';

const ALLOWED = ['/oscar', '/staff'];

const accepted: (VoRequest & { name: string; vo: string })[] = [
  {
    name: 'a listed vo of the user is kept',
    requested: '/staff',
    userGroups: ['/staff'],
    allowedGroups: ALLOWED,
    vo: '/staff',
  },
  {
    name: 'an unlisted vo is accepted unchecked',
    requested: 'vo.other.eu',
    userGroups: [],
    allowedGroups: ALLOWED,
    vo: 'vo.other.eu',
  },
  {
    name: 'without vo the first listed group of the user is used, in the order of the list',
    userGroups: ['/staff', '/oscar'],
    allowedGroups: ALLOWED,
    vo: '/oscar',
  },
  {
    name: 'an empty vo counts as absent',
    requested: '',
    userGroups: ['/staff'],
    allowedGroups: ALLOWED,
    vo: '/staff',
  },
  { name: 'no vo is needed if every user is admitted', userGroups: [], allowedGroups: [], vo: '' },
  {
    name: 'any vo is accepted if every user is admitted',
    requested: '/x',
    userGroups: [],
    allowedGroups: [],
    vo: '/x',
  },
  {
    name: 'an update that repeats the vo is not checked again',
    requested: '/staff',
    previous: '/staff',
    userGroups: [],
    allowedGroups: ALLOWED,
    vo: '/staff',
  },
  {
    name: 'an update without vo keeps it',
    previous: '/staff',
    userGroups: ['/oscar'],
    allowedGroups: ALLOWED,
    vo: '/staff',
  },
  { name: 'an update without vo keeps none', previous: '', userGroups: ['/oscar'], allowedGroups: ALLOWED, vo: '' },
  {
    name: 'an update to another group of the user is accepted',
    requested: '/oscar',
    previous: '/staff',
    userGroups: ['/oscar'],
    allowedGroups: ALLOWED,
    vo: '/oscar',
  },
];

for (const { name, vo, ...request } of accepted) {
  test(`vo: ${name}`, () => assert.deepEqual(chooseVo(request), { vo }));
}

const refused: (VoRequest & { name: string; message: RegExp })[] = [
  {
    name: 'a listed vo requires membership',
    requested: '/staff',
    userGroups: ['/oscar'],
    allowedGroups: ALLOWED,
    message: /not a member of "\/staff"/,
  },
  {
    name: 'without vo the user must be in a listed group',
    userGroups: ['/others'],
    allowedGroups: ALLOWED,
    message: /\/oscar, \/staff/,
  },
  {
    name: 'an update to a listed vo is checked',
    requested: '/staff',
    previous: '/oscar',
    userGroups: ['/oscar'],
    allowedGroups: ALLOWED,
    message: /not a member of "\/staff"/,
  },
];

for (const { name, message, ...request } of refused) {
  test(`vo: ${name}`, () => {
    assert.throws(
      () => chooseVo(request),
      (error) => error instanceof IdentityError && error.code === 'vo-refused' && message.test(error.message),
    );
  });
}
