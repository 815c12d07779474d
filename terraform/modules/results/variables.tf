variable "name" {
  description = "Prefix of names."
  type        = string
}

variable "results_days" {
  description = "Age in days at which results are deleted."
  type        = number
}

variable "backup_days" {
  description = "Age in days at which backups that hosts sent by themselves are deleted."
  type        = number
}

variable "keep" {
  description = "Whether the bucket may not be deleted while it holds anything."
  type        = bool
}
