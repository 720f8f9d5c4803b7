//! What is special to Kafka, on the cluster inside the client library.

mod cluster;
