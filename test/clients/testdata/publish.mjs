// Creates the Events that it reads from standard input, one a line, and writes the result of each.
import { createInterface } from 'node:readline';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';

const config = new KubeConfig();
config.loadFromFile(process.argv[2]);
const api = config.makeApiClient(CoreV1Api);

for await (const line of createInterface({ input: process.stdin })) {
  const { namespace, event } = JSON.parse(line);
  // The client takes times as Date.
  for (const field of ['firstTimestamp', 'lastTimestamp']) event[field] = new Date(event[field]);
  let result = {};
  try {
    await api.createNamespacedEvent({ namespace, body: event });
  } catch (error) {
    if (!error.code) throw error; // not a status
    result = { exception: `${error.constructor.name} ${error.code}` };
  }
  process.stdout.write(JSON.stringify(result) + '\n');
}
