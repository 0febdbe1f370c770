{{- /* The tables of bounds, as make generate has rendered them from test/bench/publish/templates/bounds.tmpl. They are here too, as verify-generate compares whole pages. */ -}}
{{- define "namespaceBounds" -}}
<!-- figures: namespace-bounds -->
### Its policies and quotas

| | at most | beyond that |
|---|---|---|
| in force | 16 EventPolicies and 16 EventQuotas: the oldest by `metadata.creationTimestamp`, and of one second those of the lower name | not in force: `Ready` is `False` with the reason `TooMany`. No new object takes another one out of force |
| limits of the quotas in force | 16 in all | a quota with too many is not in force, in the same way, and leaves its place to a younger one with fewer |
| limits of the namespace's own quotas that apply to one Event | 8: the first, in the order of the quotas' names | the other ones do not apply to this Event |
| time until an empty bucket is full again, of an EventQuota or the spam filter of an EventPolicy | 24 hours | the API server refuses the object |
| `spec.match` of one object | 8 KiB, with 16 bytes for each value beside its text | not in force, in the same way |
| `spec.match` of all objects of a kind in force | 64 KiB, counted alike | not in force, in the same way |
| globs in `match.messages` of one object | 16, of 256 bytes each | the API server refuses the object |
| objects with a status | 16 of each kind, and the next 8 | no status and no memory, until older ones are deleted |
| a status | 16 KiB; each message in it 1,024 bytes | a longer one that somebody else wrote is replaced; messages are cut |
| status writes | one every 1s, over all namespaces and the cluster | they wait. The cluster has every other one, and namespaces take turns for the rest |
| their labels, annotations, owners, finalizers and managed fields | none is read | |

### The Namespace itself

| | at most | beyond that |
|---|---|---|
| labels that conditions read | 4 KiB, in the order of their names, and all that a `namespaceSelector` names | unknown to conditions |
| annotations that conditions read | 4 KiB, in the order of their names; of each 512 bytes, its name included | unknown to conditions |

### Its Events

| | at most | beyond that |
|---|---|---|
| bytes of a review that are read | 128 KiB | the Event is decided as one without content. Where even its namespace or user comes later, it is refused with 429 |
| bytes of a message or another text that globs and conditions read | 4 KiB; globs also see the end | it is unknown whether the rule matches |
| writes of the same content that one token pays for | the first, and 3 repeats within 5s | each needs a token |
| occurrences that one refused Event adds to a notice | 1,048,576 | not counted |
| entries of a notice | 16 reasons and 16 sources, of which one entry is for all others together, and 10 objects | namespaces share the entries. What makes less gives way, of the namespace with most first. One refused Event weighs 100 occurrences at most |
| [buckets](concepts.md#how-many-there-may-be) whose number its Events decide | 4,096; in `default` and `kube-system` 4 more for each of 5,000 nodes | further ones share one overflow bucket of the limit and namespace |
| registers: what is known of a source, object and user, and notices | 16,384; in `default` and `kube-system` 4 more for each of 5,000 nodes | Events of further ones are not merged, and share one overflow bucket |
| a register | 64 KiB, with 256 names of refused Events, 64 kinds of similar Events, 16 buckets and 8 notices | what was used longest ago gives way; what was pending of it is in a notice |
<!-- end -->
{{ end -}}
{{- define "conditionBounds" -}}
<!-- figures: condition-bounds -->
| | at most | beyond that |
|---|---|---|
| one expression, whatever it reads | 5,000,000 steps of about a nanosecond, and 4 MiB of memory | not valid: `Accepted` is `False`, and says what is allowed |
| the result of each part of an expression | 64 KiB | not valid, in the same way |
| all rules of the cluster together, for one Event | 20,000,000 steps and 16 MiB; equal expressions count once | not in force: `Ready` is `False` with the reason `TooMany` |
| evaluated at a time | for as many Events as there are processors | others wait, within `--deadline` |
| a text that is read | 4 KiB | unknown |
| a list or map that is read | 64 entries; names of 512 bytes | unknown |
| a time that is read | from 1970 to 9999 | unknown |
<!-- end -->
{{ end -}}
