variable "region" {
  description = "AWS region."
  type        = string
}

variable "scylla_version" {
  description = "ScyllaDB release."
  type        = string
}

variable "debian_version" {
  description = "Debian release."
  type        = string
}

variable "ssm_agent" {
  description = "Whether hosts need the agent of AWS Systems Manager."
  type        = bool
}
