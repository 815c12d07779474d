terraform {
  # 1.11: the S3 backend locks without DynamoDB. 1.9: a variable's check may read other variables.
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}
